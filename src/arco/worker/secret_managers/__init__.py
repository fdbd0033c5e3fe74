"""Providers of secrets that are kept elsewhere: one module for each manager.

Addresses and credentials come from the worker's environment alone, never from a reference: so the
author of an asset cannot make the worker send its token to another server.
"""
