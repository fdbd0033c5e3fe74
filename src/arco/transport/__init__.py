"""What orchestrators and workers exchange: queues, signed envelopes, reports, liveness records."""
