"""Plans the profiles: who filters, scores and picks in each, and who picks the profile."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

from app.extension import Filter, Picker, ProfilePicker, RequiresProfiles, Scorer, SingleProfile
from app.planning.builder import PlanBuilder
from app.planning.plan import PluginPlan, ProfilePlan
from app.settings.picker_config import ProfileEntry, ProfileSpec, Role
from app.settings.tree import Origin

DEFAULT_PROFILE = "default"
DEFAULT_PICKER = "max-score-picker"
SINGLE = "single-profile-handler"
BY_HEADER = "header-profile-handler"


@dataclass
class _Parts:
    name: str
    origin: Origin
    filters: list[str] = field(default_factory=list)
    scorers: list[tuple[str, float]] = field(default_factory=list)
    pickers: list[tuple[str, Origin]] = field(default_factory=list)
    """With the place that names each."""

    def add(self, plugin: PluginPlan, weight: float, origin: Origin, roles: Collection[Role] = ()) -> None:
        """Puts the plugin wherever it can serve, or only where `roles` say."""
        roles = roles or get_args(Role)
        if plugin.type.serves(Filter) and "filter" in roles:
            self.filters.append(plugin.name)
        if plugin.type.serves(Scorer) and "scorer" in roles:
            self.scorers.append((plugin.name, weight))
        if plugin.type.serves(Picker) and "picker" in roles:
            self.pickers.append((plugin.name, origin))


def plan_profiles(builder: PlanBuilder) -> Sequence[ProfilePlan]:
    """The enabled profiles, each with exactly one picker."""
    specs = [(index, spec) for index, spec in enumerate(builder.settings.scheduling_profiles)]
    profiles = [_parts_of(builder, index, spec) for index, spec in specs if spec.enabled]
    disabled = [spec for _, spec in specs if not spec.enabled]
    builder.notes += [f"the profile {spec.name} is disabled" for spec in disabled]
    builder.used.update(entry.plugin_ref for spec in disabled for entry in spec.plugins)
    if not profiles:
        if specs and not any(spec.enabled for _, spec in specs):
            origin = builder.configuration.origin("schedulingProfiles")
            builder.faults.error(origin, "every profile is disabled", "at least one must be enabled")
        profiles = [_everything(builder)]
    _give_pickers(builder, profiles)
    return [ProfilePlan(p.name, p.filters, p.scorers, _picker_of(p)) for p in profiles]


def _picker_of(parts: _Parts) -> str:
    return parts.pickers[0][0] if parts.pickers else DEFAULT_PICKER


def plan_profile_picker(builder: PlanBuilder, profiles: Sequence[ProfilePlan]) -> str:
    """The one ProfilePicker's name."""
    found = list(builder.serving(ProfilePicker))
    if len(found) > 1:
        names = " and ".join(repr(plugin.name) for plugin in found)
        builder.faults.error(
            builder.origin_of_plugin(found[1].name), f"there are several profile pickers: {names}", "keep one"
        )
    if found:
        _check_fits(builder, found[0], profiles)
        builder.used.add(found[0].name)
        return found[0].name
    if len(profiles) == 1:
        builder.require(SINGLE, "one profile needs no choice")
        return SINGLE
    builder.faults.warn(
        builder.configuration.origin("schedulingProfiles"),
        f"several profiles and no profile picker: the header EPP-Profile chooses, {profiles[0].name!r} by default",
        f"add {BY_HEADER} or another profile picker to plugins",
    )
    builder.require(BY_HEADER, "several profiles need a choice", {"defaultProfile": profiles[0].name})
    return BY_HEADER


def _keep_strongest_picker(builder: PlanBuilder, parts: _Parts) -> None:
    """A layer that names a picker replaces the one of a weaker layer."""
    ranks = [builder.faults.rank(origin) for _, origin in parts.pickers]
    kept = [picker for picker, rank in zip(parts.pickers, ranks, strict=True) if rank == max(ranks)]
    for name, _ in parts.pickers:
        if len(kept) == 1 and name != kept[0][0]:
            builder.notes.append(f"the profile {parts.name} picks with {kept[0][0]} instead of {name}")
    parts.pickers = kept


def _check_fits(builder: PlanBuilder, plugin: PluginPlan, profiles: Sequence[ProfilePlan]) -> None:
    """Checks what the ProfilePicker's class declares: that it takes one profile only, or the profiles it requires."""
    cls, names = plugin.type.cls, [profile.name for profile in profiles]
    origin = builder.origin_of_plugin(plugin.name)
    if isinstance(cls, SingleProfile) and cls.single_profile and len(profiles) > 1:
        builder.faults.error(
            origin,
            f"{plugin.type_name} takes one profile, and there are {len(profiles)}: {', '.join(names)}",
            f"use {BY_HEADER} or another profile picker",
        )
    for name in cls.profile_names(plugin.params) if isinstance(cls, RequiresProfiles) else ():
        if name not in names:
            builder.faults.error(origin, f"it needs the profile {name!r}", f"profiles are {', '.join(names)}")


def _parts_of(builder: PlanBuilder, index: int, spec: ProfileSpec) -> _Parts:
    parts = _Parts(spec.name, builder.configuration.origin("schedulingProfiles", index))
    for place, entry in enumerate(spec.plugins):
        _add_entry(builder, parts, entry, ("schedulingProfiles", index, "plugins", place))
    return parts


def _add_entry(builder: PlanBuilder, parts: _Parts, entry: ProfileEntry, path: tuple[str | int, ...]) -> None:
    if not entry.enabled or entry.plugin_ref in builder.disabled:
        why = "" if not entry.enabled else ", which is disabled"
        builder.notes.append(f"the profile {parts.name} runs without {entry.plugin_ref}{why}")
        builder.used.add(entry.plugin_ref)
        return
    origin = builder.configuration.origin(*path, "pluginRef")
    plugin = builder.resolve(entry.plugin_ref, origin, "a profile's entry")
    if plugin is None:
        return
    if entry.as_:
        _check_roles(builder, plugin, entry, path)
    elif not plugin.type.serves(Filter, Scorer, Picker):
        builder.faults.warn(origin, f"{entry.plugin_ref!r} does nothing here: it is no filter, scorer or picker")
    elif entry.weight is not None and not plugin.type.serves(Scorer):
        at_weight = builder.configuration.origin(*path, "weight")
        builder.faults.warn(at_weight, f"{entry.plugin_ref!r} is no scorer: its weight does nothing")
    parts.add(plugin, 1.0 if entry.weight is None else entry.weight, origin, entry.as_)


def _check_roles(builder: PlanBuilder, plugin: PluginPlan, entry: ProfileEntry, path: tuple[str | int, ...]) -> None:
    """In a section of its kind, a plugin must be of that kind."""
    can_be = [role for role, point in _POINTS.items() if plugin.type.serves(point)]
    for role in entry.as_:
        if role not in can_be:
            origin = builder.configuration.origin(*path, "pluginRef")
            hint = f"it is a {' and a '.join(can_be)}" if can_be else "list it under plugins only"
            builder.faults.error(origin, f"{entry.plugin_ref!r} is no {role}", hint)
    if entry.weight is not None and "scorer" not in entry.as_:
        builder.faults.error(builder.configuration.origin(*path, "weight"), "only a scorer has a weight")


_POINTS: Mapping[str, type] = {"filter": Filter, "scorer": Scorer, "picker": Picker}


def _everything(builder: PlanBuilder) -> _Parts:
    """The profile of a configuration without profiles: all that can take part, in the order listed."""
    parts = _Parts(DEFAULT_PROFILE, builder.configuration.origin("plugins"))
    for plugin in builder.serving(Filter, Scorer, Picker):
        parts.add(plugin, 1.0, builder.origin_of_plugin(plugin.name))
        builder.used.add(plugin.name)
    return parts


def _give_pickers(builder: PlanBuilder, profiles: Sequence[_Parts]) -> None:
    for parts in profiles:
        _keep_strongest_picker(builder, parts)
        if len(parts.pickers) > 1:
            names = " and ".join(repr(name) for name, _ in parts.pickers)
            builder.faults.error(parts.origin, f"the profile {parts.name!r} has several pickers: {names}", "keep one")
    without = [parts for parts in profiles if not parts.pickers]
    if not without:
        return
    own = tuple(f"{parts.name}/" for parts in profiles)
    pickers = [plugin for plugin in builder.serving(Picker) if not plugin.name.startswith(own)]
    picker = pickers[0] if len(pickers) == 1 else builder.plugins.get(DEFAULT_PICKER)
    if picker is None or not picker.type.serves(Picker):
        names = ", ".join(parts.name for parts in without)
        picker = builder.require(DEFAULT_PICKER, f"there is no other picker for {names}")
    for parts in without:
        if picker is not None:
            parts.pickers.append((picker.name, parts.origin))
            builder.used.add(picker.name)
