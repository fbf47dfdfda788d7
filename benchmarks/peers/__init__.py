"""What a user would run instead: each module is a program that reads a file and prints one JSON object."""
