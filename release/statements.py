"""How large the code is, by room: statements of the syntax tree, docstrings aside.

    python -m release.statements REVISION          that revision beside this checkout
    python -m release.statements REVISION LATER    two revisions

Lines would count what explains the code as if it were a burden.
"""

import ast
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from release.versions import ROOT, unpack_commit


def main() -> None:
    revision, *later = sys.argv[1:]
    before, now = counted_at(revision), counted_at(later[0]) if later else counted(ROOT)
    print(f"{'room':28} {revision[:10]:>10} {(later or ['now'])[0][:10]:>10}")
    for room in sorted(before | now):
        print(f"{room:28} {before[room] or '':>10} {now[room] or '':>10}")
    total, share = before.total(), now.total() / before.total() - 1
    print(f"{'all':28} {total:10} {now.total():10} {share:+.1%}")


def counted_at(revision: str) -> Counter[str]:
    """Return the number of statements in each room of a revision."""
    with TemporaryDirectory() as folder:
        unpack_commit(revision, Path(folder))
        return counted(Path(folder))


def counted(root: Path) -> Counter[str]:
    """Return the number of statements in each room of a checkout."""
    found: Counter[str] = Counter()
    for path in (root / "src").rglob("*.py"):
        top, *rest = path.relative_to(root / "src").parts
        room = f"{top}/{rest[0]}" if top == "lakelog" and len(rest) > 1 else top
        found[room] += sum(map(is_statement, ast.walk(ast.parse(path.read_bytes()))))
    return found


def is_statement(node: ast.AST) -> bool:
    """Whether a node is a statement, and no docstring."""
    match node:
        case ast.Expr(value=ast.Constant(value=str())):
            return False
        case _:
            return isinstance(node, ast.stmt)


if __name__ == "__main__":
    main()
