"""The API from a program: a typed client, and a workspace that is reached through it."""
