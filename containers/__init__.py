"""The wiring. The only package that knows concrete classes, and the only one that imports dependency-injector."""
