"""verify and reindex on a namespace: every object, held against every other that speaks of it.

jobs        the two verbs: what they look at, in which order, and how each unit may end
census      a listing, sorted by what names say
cells       cluster.json, topics, groups, the claim of a pipeline
lanes       heads, tails and holes of a lane; cut into stretches
chains      a stretch of bundles as one chain, checkpoints as its fold
borders     where journal and history meet
histories   manifests, pages, orphans
segments    every byte of a segment and its indexes, as the manifest has it
"""

from lakelog.pipeline.fsck.jobs import ReindexNamespace, VerifyNamespace

__all__ = ["ReindexNamespace", "VerifyNamespace"]
