"""Object stores: the port, one file for each backend, and what is built on them directly."""
