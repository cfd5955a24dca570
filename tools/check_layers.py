#!/usr/bin/env python3
"""Checks the arrows between the rooms of tempera/: who includes whom.

A room may include only rooms that docs/architecture.md ("The house") lists above it, only those that its CMakeLists.txt
names, and third-party headers only in the places that docs/style.md gives them. Includes form no cycle.

usage: tools/check_layers.py [SOURCE_ROOT]     exit code 0: all hold, 1: violations are printed, 2: cannot read
"""

import re
import sys
from pathlib import Path

# Third-party headers and the rooms whose files may reach them, directly or through a header of ours.
# (^ matches the text between the brackets or quotes of an #include.)
PLACES = [
    ("ONNX and Protobuf", r"^(onnx|google/protobuf)/", ["onnx", "ops"]),
    ("torch", r"^(torch|ATen|c10)/", ["engine/torch", "autograd", "train"]),
    ("OpenVINO", r"^openvino/", ["engine/openvino"]),
    ("MPI and NCCL", r"^(mpi|nccl)\.h$", ["dist"]),
    ("httplib and prometheus", r"^(httplib\.h$|prometheus/)", ["serve"]),
    ("libvips", r"^(vips/|glib)", ["image"]),
    ("CLI11", r"^CLI/", ["cli"]),
]

# Rooms inside a room that may not know each other: each sees only the files directly in its parent, and rooms above.
SEPARATE = {"engine": ["openvino", "torch", "measure"]}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


class Unreadable(Exception):
    pass


def house(root):
    """The rooms in their order, from the tree in docs/architecture.md."""
    path = root / "docs/architecture.md"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise Unreadable(f"{path}: {error.strerror}") from error
    section = re.search(r"^## The house$(.*?)^## ", text, re.DOTALL | re.MULTILINE)
    tree = section and re.search(r"^    tempera/\n((?:      +\S.*\n)+)", section.group(1), re.MULTILINE)
    rooms = re.findall(r"^      (\w+)/ ", tree.group(1), re.MULTILINE) if tree else []
    if len(rooms) < 3:
        raise Unreadable(f"{path}: section 'The house' holds no tree of rooms below a line '    tempera/'")
    return rooms


def modules(root):
    """For each folder with a CMakeLists.txt: the rooms its tempera_module calls name, by module."""
    found = {}
    for path in sorted((root / "tempera").rglob("CMakeLists.txt")):
        text = re.sub(r"#[^\n]*", "", path.read_text(encoding="utf-8"))
        for name, body in re.findall(r"\btempera_module\s*\(\s*(\w+)([^)]*)\)", text):
            dependencies, keyword = {"DEPS": [], "PRIVATE_DEPS": [], "TEST_DEPS": []}, None
            for word in body.split():
                if re.fullmatch(r"[A-Z_]+", word):
                    keyword = word
                elif keyword in dependencies and "::" not in word:
                    dependencies[keyword].append(word)
            found[name] = (path.parent.relative_to(root / "tempera").as_posix(), dependencies)
    return found


def reachable(found):
    """For each folder: the folders that its modules and their public dependencies name."""

    def public(name, seen):
        if name not in seen and name in found:
            seen.add(name)
            for dependency in found[name][1]["DEPS"]:
                public(dependency, seen)
        return seen

    folders = {}
    for name, (folder, dependencies) in found.items():
        names = {name}
        for kind in dependencies.values():
            for dependency in kind:
                names |= public(dependency, set())
        for dependency in set(names):
            names |= public(dependency, set())
        folders.setdefault(folder, set()).update(found[n][0] for n in names)
    return folders


def is_below(folder, places):
    return any(folder == place or folder.startswith(place + "/") for place in places)


def check(root):
    rooms = house(root)
    rank = {room: index for index, room in enumerate(rooms)}
    module_folders = reachable(modules(root))
    errors = []
    ours, foreign = {}, {}  # file -> includes of ours as paths, of others as written
    files = sorted(p for p in (root / "tempera").rglob("*") if p.suffix in (".h", ".cc"))
    for path in files:
        name = path.relative_to(root).as_posix()
        text = COMMENT.sub("", path.read_text(encoding="utf-8"))
        includes = INCLUDE.findall(text)
        ours[name] = [target for _, target in includes if target.startswith("tempera/")]
        foreign[name] = [target for _, target in includes if not target.startswith("tempera/")]
        for bracket, target in includes:
            if bracket == '"' and not target.startswith("tempera/"):
                errors.append(f'{name}: includes "{target}": our headers are named by their path from the source root')

    for name, targets in ours.items():
        parts = Path(name).parts[1:-1]
        if not parts:  # tempera/tempera.h and its source see everything
            continue
        room, folder = parts[0], "/".join(parts)
        if room not in rank:
            errors.append(f"{name}: room '{room}' is not in docs/architecture.md, section 'The house'")
            continue
        for target in targets:
            other_parts = Path(target).parts[1:-1]
            if target not in ours:
                errors.append(f"{name}: includes '{target}', which does not exist")
            elif not other_parts:
                errors.append(f"{name}: includes '{target}', the public API, which stands on all rooms")
            elif rank.get(other_parts[0], -1) > rank[room]:
                errors.append(f"{name}: includes '{target}', but room '{other_parts[0]}' is listed below '{room}'")
            elif other_parts[0] == room and len(parts) > 1 and parts[1] in SEPARATE.get(room, []):
                if len(other_parts) > 1 and other_parts[1] != parts[1]:
                    errors.append(f"{name}: includes '{target}', but '{room}/{parts[1]}' sees only '{room}/' and itself")
            elif other_parts[0] != room:
                owners = [f for f in module_folders if folder == f or folder.startswith(f + "/")]
                if owners:
                    owner = max(owners, key=len)
                    if not is_below("/".join(other_parts), module_folders[owner]):
                        errors.append(f"{name}: includes '{target}', but tempera/{owner}/CMakeLists.txt names no such "
                                      f"dependency: add '{other_parts[0]}' to DEPS or PRIVATE_DEPS")

    listed = re.search(r"foreach\(room IN ITEMS\s+([\w\s]+)\)", (root / "CMakeLists.txt").read_text(encoding="utf-8"))
    if not listed or listed.group(1).split() != rooms:
        errors.append("CMakeLists.txt: its list of rooms differs from docs/architecture.md, section 'The house'")

    # Third-party headers, followed through our own.
    reached = {}

    def reach(name, trail):
        if name in trail:
            cycle = trail[trail.index(name):] + [name]
            if min(cycle[:-1]) == cycle[0]:
                errors.append("cycle of includes: " + " -> ".join(cycle))
            return {}
        if name not in reached:
            result = {header: None for header in foreign[name]}
            for target in ours[name]:
                if target in ours:
                    for header in reach(target, trail + [name]):
                        result.setdefault(header, target)
            reached[name] = result
        return reached[name]

    for name in sorted(ours):
        folder = "/".join(Path(name).parts[1:-1])
        for header, through in reach(name, []).items():
            for library, pattern, places in PLACES:
                if re.search(pattern, header) and not is_below(folder, places):
                    way = f" through '{through}'" if through else ""
                    errors.append(f"{name}: reaches <{header}>{way}: {library} belongs in {', '.join(places)}")
    return sorted(set(errors)), len(files), len(rooms)


def main(arguments):
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    try:
        errors, files, rooms = check(root)
    except Unreadable as error:
        print(f"check_layers: {error}", file=sys.stderr)
        return 2
    for error in errors:
        print(error)
    print(f"check_layers: {files} files, {rooms} rooms, {len(errors)} violations")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
