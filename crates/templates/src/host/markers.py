# Prints, as a JSON list, which of the environment markers in the JSON file argv[2] hold here; null
# holds everywhere. argv[1] is where pip lies: its own copy of `packaging` evaluates them, as pip
# would.
import json
import sys

sys.path.insert(0, sys.argv[1])
from pip._vendor.packaging.markers import Marker  # noqa: E402

with open(sys.argv[2], encoding="utf-8") as file:
    markers = json.load(file)
json.dump([marker is None or Marker(marker).evaluate() for marker in markers], sys.stdout)
