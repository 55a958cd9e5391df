"""Seven clients of others, with certificates, passwords and tokens."""
