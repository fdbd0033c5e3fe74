"""Access through the API: a typed client, and a workspace on top of it."""
