"""Whether a model's files hold the bytes that their source published."""

from __future__ import annotations

from deployctl.agent.wire.stored import Model
from deployctl.hosts import operations
from deployctl.hosts.operations import files, models
from deployctl.steps.interface import Answers, Context, Key
from deployctl.steps.models import hub, sources


def damaged(context: Context, answers: Answers, role: Key[Model]) -> list[str] | None:
    """The files of a model that lies whole by size and hold other bytes; what is damaged goes, so
    that the next fetch brings it. None where no source publishes checksums (a folder of the
    host's).

    Raises RemoteError where the hub cannot be asked: then nothing is known.
    """
    found = sources.source(context.wanted, role)
    place = sources.place(context.wanted, answers, role)
    if found is None or found.path is not None:
        return None
    expected = _expected(context, role, answers[role])
    context.progress("comparing checksums", place)
    told = context.session.call(models.checksums, path=place, names=sorted(expected))
    wrong = sorted(name for name, digest in expected.items() if told[name] != digest)
    # A hub's copy is one whole: it is fetched as one.
    gone = [place] if wrong and found.repo is not None else [f"{place}/{name}" for name in wrong]
    for path in gone:
        context.session.call(files.remove_tree, path=path)
    return wrong


def _expected(context: Context, role: Key[Model], answer: Model) -> dict[str, str]:
    found = sources.source(context.wanted, role)
    assert found is not None
    if found.bundled is not None:
        return {name: sha for name, (_, sha) in sources.shipped(found.bundled).files.items()}
    assert found.repo is not None
    told = context.session.call(
        operations.hub.survey,
        repo=found.repo,
        revision=answer["commit"],
        always=True,
        **sources.hub_access(context.wanted),
    )
    listed = hub.wanted_files(told["remote"] or ())
    return {file["name"]: file["sha256"] for file in listed if file["sha256"]}
