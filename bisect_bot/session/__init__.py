"""The loop that sees all parts: a request goes in, the journal fills, a report comes out."""
