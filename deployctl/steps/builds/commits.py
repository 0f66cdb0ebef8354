"""Which commit an environment holds: the one that was asked for, or another."""

from __future__ import annotations

from deployctl.agent.wire.builds import Distribution, Imports
from deployctl.hosts.operations import environment, files
from deployctl.steps.builds import building, environments, patches, shared
from deployctl.steps.facts import SOURCE
from deployctl.steps.interface import Context, Evidence
from deployctl.vllm.builds import sources


def prove(
    context: Context,
    found: Distribution,
    site: str,
    imported: Imports,
    evidence: Evidence,
) -> None:
    """Add to the evidence which commit is installed, by the records, and which is imported, by its
    files."""
    session = context.session
    evidence["commit_installed"], evidence["wheel"] = _installed(context, found, site)
    resolved = context.answers[SOURCE]
    if resolved["dirty"]:
        evidence["dirty"] = True
        return
    if evidence["strategy"] == shared.SHARED:
        _shared(context, imported, evidence)
        return
    wanted = str(evidence["commit_requested"])
    settings = context.wanted.profile.build
    source = environments.origin(settings.source, resolved, False)
    compared = session.call(
        environment.same_tree,
        repository=resolved["place"] or source.repository,
        commit=wanted,
        site_packages=site,
    )
    changed = {path for patch in patches.read(settings) for path in patch.paths}
    different = [path for path in compared["different"] if path not in changed]
    evidence["files_compared"] = compared["compared"]
    evidence["files_different"] = different[:10]
    evidence["files_left_out"] = len(compared["left_out"])
    told = sources.commit_agrees(wanted, imported["commit"])
    if evidence["strategy"] == "patch":
        # Where the release is not the merge base itself, its other files are the release's.
        evidence["commit_imported"] = evidence["commit_installed"]
    elif not different and told is not False and compared["compared"]:
        evidence["commit_imported"] = wanted
    else:
        evidence["commit_imported"] = imported["commit"]


def _shared(context: Context, imported: Imports, evidence: Evidence) -> None:
    """The producer has compared its files with the commit's; here they are compared with the
    records of its wheels, hash by hash, for which no repository is needed."""
    wanted = str(evidence["commit_requested"])
    facts = environments.complete(context, deep=True)
    evidence["files_compared"] = facts["entries"]
    evidence["files_different"] = list(facts["problems"])
    told = sources.commit_agrees(wanted, imported["commit"])
    proven = (evidence["producer"] or {}).get("commit_imported") == wanted
    if proven and told is not False and not facts["problem_count"]:
        evidence["commit_installed"] = evidence["commit_imported"] = wanted
    else:
        evidence["commit_imported"] = imported["commit"]


def _installed(context: Context, found: Distribution, site: str) -> tuple[str | None, str | None]:
    """The commit that the records name, and the key of the kept wheel it came from."""
    session = context.session
    patched = session.call(files.read, path=f"{site}/{found['dist_info']}/{building.PATCH_RECORD}")
    if patched["text"] is not None:
        return building.patched_commit(patched["text"]), None
    direct = found["direct_url"] or {}
    if direct.get("vcs_info"):
        return str(direct["vcs_info"]["commit_id"]), None
    path = str(direct.get("url", "")).removeprefix("file://")
    kept = session.call(environment.wheels)
    from_it = [(w.get("commit"), w["key"]) for w in kept if w["path"] == path]
    return from_it[0] if from_it else (None, None)
