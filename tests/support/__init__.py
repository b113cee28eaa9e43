"""What several tests need: a running application, model servers that do as they are told."""
