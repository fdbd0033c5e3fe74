"""What orchestrators and workers exchange: queues, signed envelopes, reports, signs of life."""
