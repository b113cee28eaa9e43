"""The Endpoint Picker Protocol over Envoy's external processing: a gRPC stream a request. Start at `processor.py`."""
