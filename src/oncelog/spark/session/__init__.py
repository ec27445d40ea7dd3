"""The Spark session, the Java and the Python processes that it runs on."""
