"""What is asked and changed without producing or consuming."""
