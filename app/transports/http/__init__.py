"""The standalone router: a reverse proxy that sends each request to the endpoint decided on."""
