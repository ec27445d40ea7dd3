"""What several parts' tests use: brokers in processes of their own, and what the machine must have for a test."""
