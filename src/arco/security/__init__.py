"""Who may do what, and who did what: roles, API keys, tokens, and the audit log."""
