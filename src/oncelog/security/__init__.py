"""The parts of security that client and broker share: stores of certificates and keys, login modules, SASL's
mechanisms.
"""
