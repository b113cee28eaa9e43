"""Providers that tests can override by name, or that say why it is too late.

An override counts for everything that is built after it. Once a provider has been used, something may hold its
result. Overriding it then would silently do nothing, so it raises. When an override ends, everything in
the container is built again at its next use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from dependency_injector import containers, providers

T = TypeVar("T")


class OverrideTooLateError(Exception):
    """A provider was overridden after its first use."""

    def __init__(self, provider: object) -> None:
        super().__init__(provider)
        self.provider = provider

    def __str__(self) -> str:
        what = getattr(self.provider, "label", "") or self.provider
        return (
            f"{what} has been used, so an override would not reach what was built with it; "
            "override it before the first use, or take a fresh container"
        )


class _Overridable:
    """What the providers below have in common."""

    used = False
    """Whether it has given anything."""
    label = ""
    """What it is called in its container."""
    rebuild: Callable[[], None] | None = None
    """Forgets all that was built in its container."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.used = True
        return super().__call__(*args, **kwargs)  # type: ignore[misc]

    def override(self, provider: Any) -> Any:
        """Puts `provider`, or an object, in its place, until the block ends if used with `with`.

        Raises `OverrideTooLateError`.
        """
        if self.used:
            raise OverrideTooLateError(self)
        return super().override(provider)  # type: ignore[misc]

    def reset_last_overriding(self) -> None:
        """Ends the last override."""
        super().reset_last_overriding()  # type: ignore[misc]
        self._rebuild()

    def reset_override(self) -> None:
        """Ends all overrides; without any it does nothing."""
        if self.overridden:  # type: ignore[attr-defined]
            super().reset_override()  # type: ignore[misc]
            self._rebuild()

    def _rebuild(self) -> None:
        if self.rebuild is not None:
            self.rebuild()


class Given(_Overridable, providers.Object[Any]):
    """A value that the container is given when it is made."""


class Single(_Overridable, providers.Singleton[T]):
    """One object per container."""


class Recipe(_Overridable, providers.Factory[T]):
    """A new object at each call."""


class Plugins(providers.Aggregate[Any]):
    """The plugins by their configured names, which may be any text."""

    def __getitem__(self, name: str) -> Single[Any]:
        """The provider of the plugin `name`. Raises `KeyError`."""
        if name not in self.providers:
            raise KeyError(f"no plugin is named {name!r}; there are {', '.join(map(str, self.providers))}")
        found: Single[Any] = self.providers[name]  # type: ignore[assignment]
        return found

    def reset_override(self) -> None:
        """Ends all overrides of plugins."""
        for provider in self.providers.values():
            provider.reset_override()


def connect(container: containers.Container) -> None:
    """Lets the end of an override reach all that was built in `container`."""
    everything: Iterable[Any] = container.traverse()
    own = [provider for provider in everything if isinstance(provider, _Overridable)]

    def rebuild() -> None:
        for provider in own:
            provider.used = False
            if isinstance(provider, providers.BaseSingleton):
                provider.reset()

    for provider in own:
        provider.rebuild = rebuild
    for name, named in container.providers.items():
        if isinstance(named, _Overridable):
            named.label = str(name)
        if isinstance(named, Plugins):
            for plugin in named.providers:
                named[str(plugin)].label = f"plugins[{plugin!r}]"


def give(container: containers.Container, **values: object) -> None:
    """Sets the values that a container is given. They are no overrides: `reset_override` leaves them alone."""
    for name, value in values.items():
        provider: Any = container.providers[name]
        if not isinstance(provider, Given):
            raise TypeError(f"{name!r} is not given to {type(container).__name__}, it is built there")
        provider.set_provides(value)
