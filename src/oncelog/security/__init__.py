"""What both sides of a secured connection know: certificates and keys in their stores, login modules, SASL's mechanisms."""
