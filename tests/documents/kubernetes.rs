//! The Kubernetes manifests, and the Helm chart that makes them from values: both are valid, and fit the settings.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::packaging::{SPARE, settings};
use super::tools::{of_python, succeeds};
use super::{read, root};

const MANIFESTS: &str = "deploy/kubernetes";
const CHART: &str = "deploy/helm";

/// Labels and annotations that only Helm writes.
const OF_HELM: &[&str] = &[
    "app.kubernetes.io/instance",
    "app.kubernetes.io/version",
    "app.kubernetes.io/managed-by",
    "helm.sh/chart",
    "checksum/settings",
];

fn documents(yaml: &str) -> Vec<Value> {
    let all = yaml_serde::Deserializer::from_str(yaml).map(|document| Value::deserialize(document).unwrap());
    all.filter(|document| !document.is_null()).collect()
}

/// What `kubectl apply -k` applies.
fn manifests() -> Vec<Value> {
    let mut applied = Vec::new();
    for file in documents(&read(format!("{MANIFESTS}/kustomization.yaml")))[0]["resources"].as_array().unwrap() {
        applied.extend(documents(&read(format!("{MANIFESTS}/{}", file.as_str().unwrap()))));
    }
    applied
}

/// What Helm installs as the release `name`, with values in YAML over those of the chart.
fn release(name: &str, values: &str) -> Vec<Value> {
    let mut helm = of_python("helm");
    documents(&succeeds(helm.args(["template", name, CHART, "--kube-version", "1.30.0", "--values", "-"]), values))
}

fn of_kind<'a>(resources: &'a [Value], kind: &str) -> Vec<&'a Value> {
    resources.iter().filter(|resource| resource["kind"] == kind).collect()
}

fn only<'a>(resources: &'a [Value], kind: &str) -> &'a Value {
    let all = of_kind(resources, kind);
    assert_eq!(all.len(), 1, "{kind}");
    all[0]
}

fn is_valid(file: &Path) {
    succeeds(of_python("kubernetes-validate").arg("--strict").arg(file), "");
}

/// Holds the resources against each other and against the settings.
fn fit(resources: &[Value]) {
    let text = only(resources, "ConfigMap")["data"]["rollcall.toml"].as_str().unwrap().to_owned();
    let config = settings(&text, &[("ROLLCALL_REDIS", "redis://localhost")]);
    let deployment = only(resources, "Deployment");
    let pod = &deployment["spec"]["template"];
    let container = &pod["spec"]["containers"][0];
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("no number: {value}"));
    let time = |value: &Value| Duration::from_secs(number(value));

    let stop = time(&container["lifecycle"]["preStop"]["sleep"]["seconds"]) + config.drain + SPARE;
    assert!(time(&pod["spec"]["terminationGracePeriodSeconds"]) >= stop, "a stop takes up to {stop:?}");
    let startup = &container["startupProbe"];
    let start = time(&startup["periodSeconds"]) * startup["failureThreshold"].as_u64().unwrap() as u32;
    assert!(start > config.wait_for_store * 2, "the probe gives up after {start:?}");
    for (probe, path) in [("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")] {
        assert_eq!(container[probe]["httpGet"]["path"], path, "{probe}");
    }

    assert_eq!(pod["spec"]["enableServiceLinks"], false, "variables of Services look like settings");
    let ports: Vec<u64> =
        container["ports"].as_array().unwrap().iter().map(|port| number(&port["containerPort"])).collect();
    let listens = [config.listen.port(), config.admin_listen.unwrap().port()].map(u64::from);
    assert_eq!(ports, listens);
    assert_eq!(pod["metadata"]["annotations"]["prometheus.io/port"], listens[1].to_string());
    let labels = &pod["metadata"]["labels"];
    for kind in ["Deployment", "PodDisruptionBudget"] {
        assert_eq!(&only(resources, kind)["spec"]["selector"]["matchLabels"], labels, "{kind}");
    }
    for service in of_kind(resources, "Service") {
        assert_eq!(&service["spec"]["selector"], labels);
    }
    for variable in container["env"].as_array().unwrap() {
        assert_eq!(variable["valueFrom"]["secretKeyRef"]["name"], pod["spec"]["volumes"][1]["secret"]["secretName"]);
    }
    let autoscalers = of_kind(resources, "HorizontalPodAutoscaler");
    assert_eq!(
        autoscalers.is_empty(),
        deployment["spec"]["replicas"].is_u64(),
        "one thing sets the number of replicas"
    );
    for autoscaler in autoscalers {
        assert_eq!(autoscaler["spec"]["scaleTargetRef"]["name"], deployment["metadata"]["name"]);
        let metric = &autoscaler["spec"]["metrics"][0]["pods"];
        assert_eq!(metric["metric"]["name"], "rollcall_sockets");
        let target: usize = metric["target"]["averageValue"].as_str().unwrap().parse().unwrap();
        let sockets = config.max_sockets.unwrap();
        assert!(target * 3 <= sockets * 2, "{target} of {sockets} sockets leave too little room when a gateway dies");
    }
}

#[test]
fn the_manifests_are_valid_and_fit_each_other_and_the_settings() {
    let mut kinds = 0;
    for file in std::fs::read_dir(root().join(MANIFESTS)).unwrap() {
        let file = file.unwrap();
        if file.file_name() != "kustomization.yaml" {
            is_valid(&file.path());
            kinds += documents(&read(file.path())).len();
        }
    }
    let applied = manifests();
    assert_eq!(applied.len(), kinds, "every manifest is applied");
    fit(&applied);
}

/// A resource without [`OF_HELM`], and with its settings in no order.
fn plain(resource: &Value) -> Value {
    let mut resource = resource.clone();
    strip(&mut resource);
    if let Some(text) = resource["data"]["rollcall.toml"].as_str() {
        let settings: toml::Table = text.parse().unwrap();
        resource["data"]["rollcall.toml"] = json!(settings);
    }
    resource
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !OF_HELM.contains(&name.as_str()));
            fields.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

#[test]
fn the_chart_alone_makes_the_manifests() {
    succeeds(of_python("helm").args(["lint", "--strict", CHART]), "");
    let name = |resource: &Value| format!("{} {}", resource["kind"], resource["metadata"]["name"]);
    let sorted = |resources: Vec<Value>| {
        let mut resources: Vec<_> = resources.iter().map(|resource| (name(resource), plain(resource))).collect();
        resources.sort_by(|a, b| a.0.cmp(&b.0));
        resources
    };
    assert_eq!(sorted(release("rollcall", "")), sorted(manifests()));
    let chart = documents(&read(format!("{CHART}/Chart.yaml"))).remove(0);
    for version in ["version", "appVersion"] {
        assert_eq!(chart[version], env!("CARGO_PKG_VERSION"), "{version}");
    }
}

#[test]
fn the_chart_with_other_values_is_valid_and_fits_too() {
    let values = r#"
image: { repository: registry.example.com/rollcall, tag: "2" }
imagePullSecrets: [{ name: registry }]
secret: { name: rollcall-keys, files: [jwks.json, api-keys], variables: { ROLLCALL_WEBHOOK_URL: webhook } }
settings:
  listen: "[::]:9000"
  admin-listen: "[::]:9001"
  jwt-public-key: null
  jwt-jwks: /secrets/jwks.json
  max-sockets: 50000
  track-online: "off"
drain: 120
waitForStore: 301
preStop: 15
replicas: 4
autoscaler: { enabled: false }
ingress: { enabled: true, className: nginx, host: live.example.com, tlsSecret: live, annotations: { a: b } }
podAnnotations: { c: d }
nodeSelector: { e: f }
tolerations: [{ operator: Exists }]
affinity: { nodeAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [] } }
"#;
    let resources = release("eu", values);
    fit(&resources);
    let folder = tempfile::tempdir().unwrap();
    for (number, resource) in resources.iter().enumerate() {
        let file = folder.path().join(format!("{number}.json"));
        std::fs::write(&file, resource.to_string()).unwrap();
        is_valid(&file);
    }
    let names = |kind: &str| -> Vec<_> {
        of_kind(&resources, kind).iter().map(|resource| resource["metadata"]["name"].clone()).collect()
    };
    assert_eq!([names("Deployment"), names("Ingress")], [["eu"], ["eu"]]);
    let target = &only(&resources, "Ingress")["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"];
    assert!(names("Service").contains(&target["name"]), "{target}");
}

#[test]
fn a_pod_has_no_secrets_that_it_does_not_need() {
    let resources = release("r", "secret: { files: [], variables: { ROLLCALL_REDIS: null } }");
    let pod = &only(&resources, "Deployment")["spec"]["template"]["spec"];
    assert!(!pod.to_string().contains("secret"), "{pod}");
}

#[test]
fn the_chart_refuses_wrong_values() {
    for (values, why) in [
        ("drian: 60", "drian"),
        ("drain: 60s", "drain"),
        ("settings: { drain: 60s }", "drain"),
        ("settings: { redis: 'redis://u:password@redis' }", "redis"),
        ("settings: { trusted-proxies: [10.0.0.0/8] }", "trusted-proxies"),
        ("settings: { track-online: off }", "track-online"),
        ("settings: { admin-listen: null }", "admin-listen"),
        ("ingress: { enabled: true }", "ingress.host"),
    ] {
        let mut helm = of_python("helm");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), values).unwrap();
        let output = helm.args(["template", "r"]).arg(root().join(CHART)).arg("--values").arg(file.path()).output();
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(why), "{values}: {said}");
    }
}
