"""Metadata of a build that depend on where the repository is published: its links.

``DEEPLFM_REPOSITORY`` is the address of the published repository, without a slash at the end. With it,
links of the README lead there; without it, they are plain text: a package index has no files to link to.
"""

import os
import re
from pathlib import Path

try:
    from hatchling.metadata.plugin.interface import MetadataHookInterface
except ImportError:  # the functions are tested where hatchling is not installed
    MetadataHookInterface = object

_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)]+)\)")


def long_description(text: str, repository: str | None, tag: str) -> str:
    """The README for a package index: links lead to files of a tag, or are plain text."""

    def replace(found: re.Match[str]) -> str:
        mark, label, target = found.groups()
        if repository is None:
            return "" if mark else label
        return f"{mark}[{label}]({repository}/{'raw' if mark else 'blob'}/{tag}/{target})"

    return _LINK.sub(replace, text)


def project_urls(repository: str | None, tag: str) -> dict[str, str]:
    """Links of the project; none where it is published nowhere."""
    if repository is None:
        return {}
    return {
        "Repository": repository,
        "Documentation": f"{repository}/tree/{tag}/docs",
        "Changelog": f"{repository}/blob/{tag}/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }


class Links(MetadataHookInterface):  # type: ignore[misc]
    """Sets the README and the links of the project."""

    def update(self, metadata: dict) -> None:
        """Add both to the metadata of the build."""
        root = Path(self.root)
        source = (root / "src" / "deeplfm" / "__init__.py").read_text(encoding="utf-8")
        (version,) = re.findall(r'^__version__ = "(.+)"$', source, re.MULTILINE)
        repository = os.environ.get("DEEPLFM_REPOSITORY") or None
        text = (root / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": long_description(text, repository, f"v{version}"),
        }
        if repository:
            metadata["urls"] = project_urls(repository, f"v{version}")
