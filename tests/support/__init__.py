"""What several parts' tests use: brokers in processes of their own, and a proxy that cuts connections on request."""
