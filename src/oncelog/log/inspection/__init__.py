"""Looking at the files of logs that nobody has open: what is in them, what is wrong with them, putting it right."""
