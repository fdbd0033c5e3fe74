"""Orders come in every day, are cleaned, and become the revenue of each country.

raw.orders ──► clean.orders ──► marts.revenue
Python         Spark            SQL
"""
