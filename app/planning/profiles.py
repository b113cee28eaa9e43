"""Plans the profiles: the filters, scorers and picker of each, and the plugin that chooses between profiles."""

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
class _ProfileBuilder:
    name: str
    origin: Origin
    filters: list[str] = field(default_factory=list)
    scorers: list[tuple[str, float]] = field(default_factory=list)
    pickers: list[tuple[str, Origin]] = field(default_factory=list)
    """With the origin of the entry that names each."""

    def add(self, plugin: PluginPlan, weight: float, origin: Origin, roles: Collection[Role] = ()) -> None:
        """Adds the plugin in every role that it can serve, or only in `roles`."""
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
    profiles = [_profile_of(builder, index, spec) for index, spec in specs if spec.enabled]
    disabled = [spec for _, spec in specs if not spec.enabled]
    builder.notes += [f"the profile {spec.name} is disabled" for spec in disabled]
    builder.used.update(entry.plugin_ref for spec in disabled for entry in spec.plugins)
    if not profiles:
        if specs and not any(spec.enabled for _, spec in specs):
            origin = builder.configuration.origin("schedulingProfiles")
            builder.faults.error(origin, "every profile is disabled", "at least one must be enabled")
        profiles = [_default_profile(builder)]
    _assign_pickers(builder, profiles)
    return [ProfilePlan(p.name, p.filters, p.scorers, _picker_of(p)) for p in profiles]


def _picker_of(profile: _ProfileBuilder) -> str:
    return profile.pickers[0][0] if profile.pickers else DEFAULT_PICKER


def plan_profile_picker(builder: PlanBuilder, profiles: Sequence[ProfilePlan]) -> str:
    """The name of the only profile picker."""
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
        builder.require(SINGLE, "there is only one profile")
        return SINGLE
    default = profiles[0].name
    builder.faults.warn(
        builder.configuration.origin("schedulingProfiles"),
        f"there are several profiles but no profile picker: the header EPP-Profile selects one, by default {default!r}",
        f"add {BY_HEADER} or another profile picker to plugins",
    )
    builder.require(BY_HEADER, "there are several profiles and no other profile picker", {"defaultProfile": default})
    return BY_HEADER


def _keep_strongest_picker(builder: PlanBuilder, profile: _ProfileBuilder) -> None:
    """Keeps the pickers of the strongest layer: a picker of a stronger layer replaces those of weaker ones."""
    ranks = [builder.faults.rank(origin) for _, origin in profile.pickers]
    kept = [picker for picker, rank in zip(profile.pickers, ranks, strict=True) if rank == max(ranks)]
    for name, _ in profile.pickers:
        if len(kept) == 1 and name != kept[0][0]:
            builder.notes.append(f"the profile {profile.name} uses the picker {kept[0][0]} instead of {name}")
    profile.pickers = kept


def _check_fits(builder: PlanBuilder, plugin: PluginPlan, profiles: Sequence[ProfilePlan]) -> None:
    """Checks the profiles against what the profile picker's class declares: only one profile, or certain ones."""
    cls, names = plugin.type.cls, [profile.name for profile in profiles]
    origin = builder.origin_of_plugin(plugin.name)
    if isinstance(cls, SingleProfile) and cls.single_profile and len(profiles) > 1:
        builder.faults.error(
            origin,
            f"{plugin.type_name} takes only one profile, but there are {len(profiles)}: {', '.join(names)}",
            f"use {BY_HEADER} or another profile picker",
        )
    for name in cls.profile_names(plugin.params) if isinstance(cls, RequiresProfiles) else ():
        if name not in names:
            builder.faults.error(
                origin, f"{plugin.name!r} needs the profile {name!r}", f"the profiles are {', '.join(names)}"
            )


def _profile_of(builder: PlanBuilder, index: int, spec: ProfileSpec) -> _ProfileBuilder:
    profile = _ProfileBuilder(spec.name, builder.configuration.origin("schedulingProfiles", index))
    for place, entry in enumerate(spec.plugins):
        _add_entry(builder, profile, entry, ("schedulingProfiles", index, "plugins", place))
    return profile


def _add_entry(
    builder: PlanBuilder, profile: _ProfileBuilder, entry: ProfileEntry, path: tuple[str | int, ...]
) -> None:
    if not entry.enabled or entry.plugin_ref in builder.disabled:
        why = "" if not entry.enabled else ", which is disabled"
        builder.notes.append(f"the profile {profile.name} runs without {entry.plugin_ref}{why}")
        builder.used.add(entry.plugin_ref)
        return
    origin = builder.configuration.origin(*path, "pluginRef")
    plugin = builder.resolve(entry.plugin_ref, origin, "a profile's entry")
    if plugin is None:
        return
    if entry.as_:
        _check_roles(builder, plugin, entry, path)
    elif not plugin.type.serves(Filter, Scorer, Picker):
        builder.faults.warn(origin, f"{entry.plugin_ref!r} has no effect here: it is not a filter, scorer or picker")
    elif entry.weight is not None and not plugin.type.serves(Scorer):
        at_weight = builder.configuration.origin(*path, "weight")
        builder.faults.warn(at_weight, f"{entry.plugin_ref!r} is not a scorer: its weight has no effect")
    profile.add(plugin, 1.0 if entry.weight is None else entry.weight, origin, entry.as_)


def _check_roles(builder: PlanBuilder, plugin: PluginPlan, entry: ProfileEntry, path: tuple[str | int, ...]) -> None:
    """Checks that a plugin in a section for filters, scorers or pickers is one."""
    possible = [role for role, point in _POINTS.items() if plugin.type.serves(point)]
    for role in entry.as_:
        if role not in possible:
            origin = builder.configuration.origin(*path, "pluginRef")
            hint = f"it is a {' and a '.join(possible)}" if possible else "list it under plugins only"
            builder.faults.error(origin, f"{entry.plugin_ref!r} is not a {role}", hint)
    if entry.weight is not None and "scorer" not in entry.as_:
        builder.faults.error(builder.configuration.origin(*path, "weight"), "only a scorer has a weight")


_POINTS: Mapping[str, type] = {"filter": Filter, "scorer": Scorer, "picker": Picker}


def _default_profile(builder: PlanBuilder) -> _ProfileBuilder:
    """The profile if none is configured: every filter, scorer and picker, in the order listed."""
    profile = _ProfileBuilder(DEFAULT_PROFILE, builder.configuration.origin("plugins"))
    for plugin in builder.serving(Filter, Scorer, Picker):
        profile.add(plugin, 1.0, builder.origin_of_plugin(plugin.name))
        builder.used.add(plugin.name)
    return profile


def _assign_pickers(builder: PlanBuilder, profiles: Sequence[_ProfileBuilder]) -> None:
    for profile in profiles:
        _keep_strongest_picker(builder, profile)
        if len(profile.pickers) > 1:
            names = " and ".join(repr(name) for name, _ in profile.pickers)
            builder.faults.error(
                profile.origin, f"the profile {profile.name!r} has several pickers: {names}", "keep one"
            )
    without = [profile for profile in profiles if not profile.pickers]
    if not without:
        return
    own = tuple(f"{profile.name}/" for profile in profiles)
    pickers = [plugin for plugin in builder.serving(Picker) if not plugin.name.startswith(own)]
    picker = pickers[0] if len(pickers) == 1 else builder.plugins.get(DEFAULT_PICKER)
    if picker is None or not picker.type.serves(Picker):
        names = ", ".join(profile.name for profile in without)
        picker = builder.require(DEFAULT_PICKER, f"there is no other picker for {names}")
    for profile in without:
        if picker is not None:
            profile.pickers.append((picker.name, profile.origin))
            builder.used.add(picker.name)
