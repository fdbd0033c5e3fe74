"""Wire types that every process, and every language, must agree on."""
