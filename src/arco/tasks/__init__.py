"""What a task may write and how it may fail, on Spark or off it."""
