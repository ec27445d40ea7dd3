"""`oncelog run`, and `oncelog prepare`, which makes its sessions start sooner."""
