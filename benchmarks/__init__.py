"""What is measured and searched for outside the tests; each runs alone and prints one table."""
