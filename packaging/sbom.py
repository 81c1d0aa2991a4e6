"""The software bill of materials: CycloneDX 1.5 JSON with the libraries that are in the programs."""

import hashlib
import json
import pathlib
import platform
import time
import urllib.parse
import uuid

NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "pkg:generic/xpurun")


def purl(component, distribution):
    version = urllib.parse.quote(component.version, safe="~.-")
    name = urllib.parse.quote(component.package, safe="~.-")
    return f"pkg:deb/debian/{name}@{version}?arch=amd64&distro={distribution}"


def sha256(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def entry(component, distribution):
    value = {
        "type": "library",
        "bom-ref": component.package,
        "name": component.package,
        "version": component.version,
        "purl": purl(component, distribution),
        "properties": [
            {"name": "xpurun:linkage", "value": component.linkage},
            {"name": "xpurun:source-package", "value": component.source},
            {"name": "xpurun:licence-file", "value": f"licences/{component.source}.txt"},
        ],
    }
    libraries = [path for path in component.files if ".so" in path or path.endswith(".a")]
    if libraries:
        value["components"] = [
            {"type": "file", "bom-ref": f"{component.package}:{pathlib.Path(path).name}",
             "name": pathlib.Path(path).name, "hashes": [{"alg": "SHA-256", "content": sha256(path)}]}
            for path in libraries]
    return value


def document(version, components, epoch):
    """The bill as text. The same components give the same bytes."""
    release = platform.freedesktop_os_release()
    distribution = f"{release['ID']}-{release.get('VERSION_ID', 'unknown')}"
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch)),
            "component": {
                "type": "application",
                "bom-ref": "xpurun",
                "name": "xpurun",
                "version": version,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            },
        },
        "components": [entry(component, distribution) for component in components],
        "dependencies": [{"ref": "xpurun", "dependsOn": [component.package for component in components]}],
    }
    bill["serialNumber"] = uuid.uuid5(NAMESPACE, json.dumps(bill, sort_keys=True)).urn
    return json.dumps(bill, indent=2, sort_keys=True) + "\n"
