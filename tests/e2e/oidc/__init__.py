"""Clients with tokens of a real Keycloak."""
