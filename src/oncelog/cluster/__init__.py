"""A broker among others: who they are, who leads which partition, and what follows from that."""
