//! The Kubernetes manifests, and the Helm chart that makes them from values: both are valid, and
//! fit the settings. So are those for the Prometheus Operator, which fit the alerts.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::packaging::{SPARE, settings};
use super::tools::{of_python, prints, succeeds};
use super::{read, root};

const MANIFESTS: &str = "deploy/kubernetes";
const MONITORING: &str = "deploy/kubernetes/monitoring";
const CHART: &str = "deploy/helm";

/// The kinds of the Prometheus Operator. Its models leave out fields that they do not know, so
/// these would be missing in what they print.
const OF_OPERATOR: &str = r#"
import json, sys
from cloudcoil.models.prometheus_operator import v1
for given in json.load(sys.stdin):
    understood = getattr(v1, given["kind"]).model_validate(given)
    kept = understood.model_dump(by_alias=True, exclude_unset=True, mode="json")
    assert kept == given, f"unknown fields: {json.dumps(given)} became {json.dumps(kept)}"
"#;

/// Labels and annotations that only Helm writes.
const OF_HELM: &[&str] = &[
    "app.kubernetes.io/instance",
    "app.kubernetes.io/version",
    "app.kubernetes.io/managed-by",
    "helm.sh/chart",
    "checksum/settings",
];

fn documents(yaml: &str) -> Vec<Value> {
    let all = yaml_serde::Deserializer::from_str(yaml)
        .map(|document| Value::deserialize(document).unwrap());
    all.filter(|document| !document.is_null()).collect()
}

/// What `kubectl apply -k` applies.
fn manifests(folder: &str) -> Vec<Value> {
    let mut applied = Vec::new();
    for file in documents(&read(format!("{folder}/kustomization.yaml")))[0]["resources"]
        .as_array()
        .unwrap()
    {
        applied.extend(documents(&read(format!(
            "{folder}/{}",
            file.as_str().unwrap()
        ))));
    }
    applied
}

/// What Helm installs as the release `name`, with values in YAML over those of the chart.
fn release(name: &str, values: &str) -> Vec<Value> {
    let args = "--kube-version 1.30.0 --values -";
    let mut helm = of_python("helm");
    let helm = helm.args(["template", name, CHART]).args(args.split(' '));
    documents(&prints(helm, values))
}

fn of_kind<'a>(resources: &'a [Value], kind: &str) -> Vec<&'a Value> {
    resources
        .iter()
        .filter(|resource| resource["kind"] == kind)
        .collect()
}

fn only<'a>(resources: &'a [Value], kind: &str) -> &'a Value {
    let all = of_kind(resources, kind);
    assert_eq!(all.len(), 1, "{kind}");
    all[0]
}

/// The resources are all valid, each by itself.
fn are_valid(resources: &[Value]) {
    let is_of_operator = |resource: &&Value| resource["apiVersion"] == "monitoring.coreos.com/v1";
    let (of_operator, others): (Vec<&Value>, Vec<&Value>) =
        resources.iter().partition(is_of_operator);
    if !of_operator.is_empty() {
        succeeds(
            of_python("python").args(["-c", OF_OPERATOR]),
            &json!(of_operator).to_string(),
        );
    }
    let folder = tempfile::tempdir().unwrap();
    for (number, resource) in others.iter().enumerate() {
        let file = folder.path().join(format!("{number}.json"));
        std::fs::write(&file, resource.to_string()).unwrap();
        let mut validate = of_python("kubernetes-validate");
        succeeds(validate.arg("--strict").arg(file), "");
    }
}

/// Holds the resources against each other and against the settings.
fn fit(resources: &[Value]) {
    let text = only(resources, "ConfigMap")["data"]["rollcall.toml"]
        .as_str()
        .unwrap()
        .to_owned();
    let config = settings(&text, &[("ROLLCALL_REDIS", "redis://localhost")]);
    let deployment = only(resources, "Deployment");
    let pod = &deployment["spec"]["template"];
    let container = &pod["spec"]["containers"][0];
    let number = |value: &Value| {
        value
            .as_u64()
            .unwrap_or_else(|| panic!("no number: {value}"))
    };
    let time = |value: &Value| Duration::from_secs(number(value));

    let stop = time(&container["lifecycle"]["preStop"]["sleep"]["seconds"]) + config.drain + SPARE;
    assert!(
        time(&pod["spec"]["terminationGracePeriodSeconds"]) >= stop,
        "a stop takes up to {stop:?}"
    );
    let startup = &container["startupProbe"];
    let start =
        time(&startup["periodSeconds"]) * startup["failureThreshold"].as_u64().unwrap() as u32;
    assert!(
        start > config.wait_for_store * 2,
        "the probe gives up after {start:?}"
    );
    // An update stops at a gateway that never gets a lease.
    assert!(
        time(&deployment["spec"]["minReadySeconds"]) > config.lease / 2,
        "the next pod follows too soon"
    );
    for (probe, path) in [
        ("startupProbe", "/healthz"),
        ("livenessProbe", "/healthz"),
        ("readinessProbe", "/readyz?store=ignore"),
    ] {
        assert_eq!(container[probe]["httpGet"]["path"], path, "{probe}");
    }

    assert_eq!(
        pod["spec"]["enableServiceLinks"], false,
        "variables of Services look like settings"
    );
    let ports: Vec<u64> = container["ports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|port| number(&port["containerPort"]))
        .collect();
    let mut listens = vec![config.listen.port(), config.admin_listen.unwrap().port()];
    listens.extend(config.udp.map(|udp| udp.port()));
    let listens: Vec<u64> = listens.into_iter().map(u64::from).collect();
    assert_eq!(ports, listens);
    let labels = &pod["metadata"]["labels"];
    let selector = &deployment["spec"]["selector"]["matchLabels"];
    assert!(has(labels, selector), "{labels}");
    assert_eq!(
        &only(resources, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        selector
    );
    for service in of_kind(resources, "Service") {
        assert_eq!(&service["spec"]["selector"], selector);
        // Operators need the internal port of a gateway that is not ready; viewers do not need such
        // a gateway.
        let is_internal = service["spec"]["ports"][0]["targetPort"] == "admin";
        assert_eq!(
            service["spec"]["publishNotReadyAddresses"] == true,
            is_internal,
            "{service}"
        );
    }
    for policy in of_kind(resources, "NetworkPolicy") {
        assert_eq!(&policy["spec"]["podSelector"]["matchLabels"], selector);
        let rules = policy["spec"]["ingress"].as_array().unwrap();
        let of_port = |name: &str| rules.iter().find(|rule| rule["ports"][0]["port"] == name);
        assert!(of_port("public").is_some(), "{policy}");
        assert_eq!(of_port("udp").is_some(), config.udp.is_some(), "{policy}");
        // A rule without `from` lets everybody in.
        let admin = of_port("admin").unwrap_or_else(|| panic!("{policy}"));
        assert!(!admin["from"].as_array().unwrap().is_empty(), "{policy}");
    }
    for monitor in of_kind(resources, "PodMonitor") {
        let wanted = &monitor["spec"]["selector"]["matchLabels"];
        assert!(has(labels, wanted) && *wanted != json!({}), "{monitor}");
        assert_eq!(monitor["spec"]["podMetricsEndpoints"][0]["port"], "admin");
        has_the_job_of_the_alerts(monitor, labels);
    }
    // A job that finds pods by these would have a name that no alert knows.
    assert!(
        !pod["metadata"]["annotations"]
            .to_string()
            .contains("prometheus.io/"),
        "{pod}"
    );
    for variable in container["env"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|variable| variable["valueFrom"].is_object())
    {
        assert_eq!(
            variable["valueFrom"]["secretKeyRef"]["name"],
            pod["spec"]["volumes"][1]["secret"]["secretName"]
        );
    }
    let autoscalers = of_kind(resources, "HorizontalPodAutoscaler");
    assert_eq!(
        autoscalers.is_empty(),
        deployment["spec"]["replicas"].is_u64(),
        "one thing sets the number of replicas"
    );
    for autoscaler in autoscalers {
        assert_eq!(
            autoscaler["spec"]["scaleTargetRef"]["name"],
            deployment["metadata"]["name"]
        );
        let metric = &autoscaler["spec"]["metrics"][0]["pods"];
        assert_eq!(metric["metric"]["name"], "rollcall_sockets");
        let target: usize = metric["target"]["averageValue"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        let sockets = config.max_sockets.unwrap();
        assert!(
            target * 3 <= sockets * 2,
            "{target} of {sockets} sockets leave too little room when a gateway dies"
        );
    }
}

/// Prometheus takes the name of the job from a label of the pods.
fn has_the_job_of_the_alerts(monitor: &Value, pods: &Value) {
    let label = monitor["spec"]["jobLabel"]
        .as_str()
        .unwrap_or_else(|| panic!("{monitor}: no jobLabel"));
    let job = pods[label].as_str().unwrap();
    let alerts = read("docs/alerts.yml");
    let jobs: BTreeSet<&str> = alerts
        .split("{job=\"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    assert_eq!(
        jobs,
        BTreeSet::from([job]),
        "the jobs of the alerts, and the one of the scrape"
    );
}

#[test]
fn the_manifests_are_valid_and_fit_each_other_and_the_settings() {
    let mut kinds = 0;
    for folder in [MANIFESTS, MONITORING] {
        for file in std::fs::read_dir(root().join(folder))
            .unwrap()
            .map(|file| file.unwrap().path())
        {
            if file.is_file() && !file.ends_with("kustomization.yaml") {
                kinds += documents(&read(file)).len();
            }
        }
    }
    let mut applied = manifests(MANIFESTS);
    applied.extend(manifests(MONITORING));
    assert_eq!(applied.len(), kinds, "every manifest is applied");
    are_valid(&applied);
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
            fields.retain(|name, value| name != "annotations" || *value != json!({}));
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
        let mut resources: Vec<_> = resources
            .iter()
            .map(|resource| (name(resource), plain(resource)))
            .collect();
        resources.sort_by(|a, b| a.0.cmp(&b.0));
        resources
    };
    assert_eq!(
        sorted(release("rollcall", "")),
        sorted(manifests(MANIFESTS))
    );
    let chart = documents(&read(format!("{CHART}/Chart.yaml"))).remove(0);
    for version in ["version", "appVersion"] {
        assert_eq!(chart[version], env!("CARGO_PKG_VERSION"), "{version}");
    }
}

#[test]
fn the_chart_with_other_values_is_valid_and_fits_too() {
    let values = r#"
image:
  repository: registry.example.com/rollcall
  tag: "2"
  digest: sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
imagePullSecrets: [{ name: registry }]
secret: { name: rollcall-keys, files: [jwks.json, api-keys, presence], variables: { ROLLCALL_WEBHOOK_URL: webhook } }
settings:
  listen: "[::]:9000"
  admin-listen: "[::]:9001"
  jwt-public-key: null
  jwt-jwks: /secrets/jwks.json
  max-sockets: 50000
  track-online: "off"
  trusted-proxies: 10.244.0.0/16
  udp: "[::]:9002"
  udp-advertise: live.example.com:443
  presence-secret-file: /secrets/presence
drain: 120
waitForStore: 301
preStop: 15
replicas: 4
autoscaler: { enabled: false }
ingress: { enabled: true, className: nginx, host: live.example.com, tlsSecret: live, annotations: { a: b } }
service:
  type: LoadBalancer
  port: 443
  nodePort: 30443
  annotations: { g: h }
  loadBalancerClass: example.com/fast
  loadBalancerSourceRanges: [192.0.2.0/24]
  externalTrafficPolicy: Local
udpService: { port: 443, annotations: { m: o } }
adminService: { annotations: { i: j } }
networkPolicy:
  publicFrom: [{ namespaceSelector: { matchLabels: { kubernetes.io/metadata.name: ingress-nginx } } }]
  udpFrom: [{ ipBlock: { cidr: 198.51.100.0/24 } }]
  adminFrom: [{ podSelector: { matchLabels: { app: shop } } }]
  egress: [{ to: [{ ipBlock: { cidr: 10.9.0.0/16 } }], ports: [{ port: 6379, protocol: TCP }] }]
podMonitor: { enabled: true, interval: 30s, labels: { release: prometheus } }
prometheusRule: { enabled: true, labels: { release: prometheus }, documents: "https://git.example.com/rollcall/" }
serviceAccount: { create: true, annotations: { k: l } }
labels: { team: live }
annotations: { owner: live }
podLabels: { mesh: "on" }
podAnnotations: { c: d }
priorityClassName: viewers
nodeSelector: { e: f }
tolerations: [{ operator: Exists }]
affinity: { nodeAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [] } }
topologySpreadConstraints:
  - maxSkew: 2
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: DoNotSchedule
    labelSelector: { matchLabels: { app.kubernetes.io/instance: eu } }
extraEnv: [{ name: ROLLCALL_LOG, value: debug }]
extraEnvFrom: [{ configMapRef: { name: more } }]
extraVolumes: [{ name: certificate, secret: { secretName: live-tls } }]
extraVolumeMounts: [{ name: certificate, mountPath: /tls, readOnly: true }]
"#;
    let resources = release("eu", values);
    fit(&resources);
    are_valid(&resources);
    for wanted in documents(MADE_FROM_OTHER_VALUES) {
        let is_there = resources.iter().any(|resource| has(resource, &wanted));
        assert!(is_there, "{wanted}\nis not in\n{}", json!(resources));
    }
    for resource in &resources {
        assert_eq!(resource["metadata"]["labels"]["team"], "live", "{resource}");
    }
    let pod = &only(&resources, "Deployment")["spec"]["template"]["spec"];
    let spread = &pod["topologySpreadConstraints"];
    assert_eq!(spread.as_array().unwrap().len(), 1, "{spread}");
    let policy = &only(&resources, "NetworkPolicy")["spec"];
    for rule in policy["ingress"].as_array().unwrap() {
        assert!(rule["from"].is_array(), "{rule}");
    }
}

/// The parts of the resources in which the values of the test above are.
const MADE_FROM_OTHER_VALUES: &str = r#"
kind: Deployment
metadata: { name: eu, annotations: { owner: live } }
spec:
  template:
    metadata: { labels: { mesh: "on" }, annotations: { c: d } }
    spec:
      priorityClassName: viewers
      nodeSelector: { e: f }
      serviceAccountName: eu
      topologySpreadConstraints: [{ topologyKey: topology.kubernetes.io/zone }]
      volumes: [{ name: certificate, secret: { secretName: live-tls } }]
      containers:
        - image: registry.example.com/rollcall:2@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
          env: [{ name: ROLLCALL_LOG, value: debug }]
          envFrom: [{ configMapRef: { name: more } }]
          volumeMounts: [{ name: certificate, mountPath: /tls, readOnly: true }]
---
kind: ServiceAccount
metadata: { name: eu }
---
kind: Ingress
metadata: { name: eu }
spec: { rules: [{ http: { paths: [{ backend: { service: { name: eu } } }] } }] }
---
kind: Service
metadata: { name: eu, annotations: { g: h } }
spec:
  type: LoadBalancer
  externalTrafficPolicy: Local
  ports: [{ name: public, port: 443, targetPort: public, nodePort: 30443 }]
---
kind: Service
metadata: { annotations: { m: o } }
spec:
  type: LoadBalancer
  externalTrafficPolicy: Local
  ports: [{ name: udp, protocol: UDP, port: 443, targetPort: udp }]
---
kind: Service
metadata: { annotations: { i: j } }
---
kind: NetworkPolicy
spec:
  policyTypes: [Ingress, Egress]
  egress: [{ to: [{ ipBlock: { cidr: 10.9.0.0/16 } }] }]
"#;

/// Whether a value has all the fields and items that are wanted.
fn has(value: &Value, wanted: &Value) -> bool {
    match (value, wanted) {
        (Value::Object(fields), Value::Object(wanted)) => wanted
            .iter()
            .all(|(name, wanted)| fields.get(name).is_some_and(|value| has(value, wanted))),
        (Value::Array(items), Value::Array(wanted)) => wanted
            .iter()
            .all(|wanted| items.iter().any(|item| has(item, wanted))),
        _ => value == wanted,
    }
}

/// What the Prometheus Operator gets is what Prometheus would read from the file, with whole
/// addresses of runbooks.
#[test]
fn the_chart_installs_the_alerts_of_the_documents() {
    let values =
        "prometheusRule: { enabled: true, documents: 'https://git.example.com/rollcall/' }";
    let resources = release("rollcall", values);
    let groups = &only(&resources, "PrometheusRule")["spec"]["groups"];
    let mut given: Value = yaml_serde::from_str(&read("docs/alerts.yml")).unwrap();
    for rule in given["groups"][0]["rules"].as_array_mut().unwrap() {
        let path = rule["annotations"]["runbook_url"]
            .as_str()
            .unwrap()
            .to_owned();
        rule["annotations"]["runbook_url"] =
            json!(format!("https://git.example.com/rollcall/{path}"));
    }
    assert_eq!(*groups, given["groups"]);
    assert!(
        of_kind(&release("rollcall", ""), "PrometheusRule").is_empty(),
        "not every cluster has the operator"
    );
}

#[test]
fn a_pod_has_no_secrets_that_it_does_not_need() {
    let resources = release(
        "r",
        "secret: { files: [], variables: { ROLLCALL_REDIS: null } }",
    );
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
        (
            "settings: { trusted-proxies: [10.0.0.0/8] }",
            "trusted-proxies",
        ),
        ("settings: { track-online: off }", "track-online"),
        ("settings: { admin-listen: null }", "admin-listen"),
        ("ingress: { enabled: true }", "ingress.host"),
        (
            "ingress: { enabled: true, host: a.example.com }",
            "trusted-proxies",
        ),
        ("service: { type: ExternalName }", "service.type"),
        ("service: { anotations: {} }", "anotations"),
        ("image: { digest: latest }", "digest"),
        ("podLabels: { a: 1 }", "podLabels"),
        ("extraEnv: [{ value: a }]", "extraEnv"),
        (
            "prometheusRule: { documents: 'https://git.example.com' }",
            "documents",
        ),
        ("networkPolicy: { adminFrom: everybody }", "adminFrom"),
    ] {
        let mut helm = of_python("helm");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), values).unwrap();
        let output = helm
            .args(["template", "r"])
            .arg(root().join(CHART))
            .arg("--values")
            .arg(file.path())
            .output();
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && said.contains(why),
            "{values}: {said}"
        );
    }
}
