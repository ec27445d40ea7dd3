"""Administration: descriptions and changes of a cluster."""
