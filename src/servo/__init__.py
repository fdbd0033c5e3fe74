"""What users import to declare data assets."""
