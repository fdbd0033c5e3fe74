"""Payments are loaded by Servo. dbt makes models of them: raw ──► staging ──► marts."""
