"""What several tests need: a running application, model servers with scripted responses, a gateway."""
