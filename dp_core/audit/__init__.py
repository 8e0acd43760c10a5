"""The executable proof: exact answers on neighbouring files, against the charged sensitivities.

Imports every room of `dp_core`; nothing but the command `dp-release audit` and tests import it. It
holds generated files only. Read `report` first (what is found), then `audited_session` (how one
charge is audited), `changes` (what is compared), `frozen_noise` (how the exact answers are seen
before noise is added), `neighbour_files` (what neighbours are), `tiny_files` and `tiny_households`
(the files), `configurations` (the releases), and `audit_run` (all of it together).
"""
