"""Providers of secrets that are kept elsewhere: one module for each manager.

Addresses and credentials come from the worker's environment alone, never from a reference:
whoever declares an asset cannot have the worker send its token to a server of their choice.
"""
