"""The files that differ from the base of the current work, by git."""

import subprocess

# Possible names of the default branch, the remote's own answer first.
DEFAULT_BRANCHES = ["refs/remotes/origin/HEAD", "refs/remotes/origin/main", "refs/remotes/origin/master",
                    "refs/heads/main", "refs/heads/master"]


class NoHistory(Exception):
    """No base to compare with; the text gives the reason."""


def git(root, *arguments):
    """The output, or None if git failed."""
    done = subprocess.run(["git", "-c", f"safe.directory={root}", "-C", str(root), *arguments],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False, text=True)
    return done.stdout if done.returncode == 0 else None


def base_commit(root):
    """The merge base with the default branch; on that branch itself, the commit before the last."""
    head = git(root, "rev-parse", "--verify", "HEAD")
    if head is None:
        raise NoHistory("this is no git repository, or it has no commit")
    for branch in DEFAULT_BRANCHES:
        base = git(root, "merge-base", "HEAD", branch)
        if base is not None and base != head:
            return base.strip()
        if base is not None:
            break
    before = git(root, "rev-parse", "--verify", "HEAD^")
    if before is None:
        raise NoHistory("the last commit has no parent here (the first commit, or a shallow clone)")
    return before.strip()


def changed_since(root, base):
    """Relative paths of the files that are new or different, committed or not."""
    listings = [git(root, "diff", "-z", "--name-only", "--diff-filter=d", base),
                git(root, "ls-files", "-z", "--others", "--exclude-standard")]
    return sorted({name for listing in listings for name in (listing or "").split("\0") if name})
