{{/* Parts of containers that all services share. Arguments: root, service. */}}
{{- define "bastion.container" -}}
{{- $root := index . 0 }}
{{- $service := index . 1 }}
{{- $values := $root.Values -}}
image: {{ include "bastion.image" (list $root (print "bastion-" $service)) }}
imagePullPolicy: {{ $values.images.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  capabilities: {drop: [ALL]}
  readOnlyRootFilesystem: {{ or $values.readOnlyRootFilesystem (eq $service "orchestrator") }}
env:
  - name: POD_NAME
    valueFrom: {fieldRef: {fieldPath: metadata.name}}
  {{- if eq $values.mode "split" }}
  - name: POD_INDEX
    valueFrom: {fieldRef: {fieldPath: "metadata.labels['apps.kubernetes.io/pod-index']"}}
  {{- end }}
  {{- if and $values.images.cuda (ne $service "orchestrator") }}
  - {name: CUDA_CACHE_PATH, value: /var/lib/bastion/cuda}
  {{- end }}
  {{- with $values.tracing }}
  {{- if .endpoint }}
  - {name: OTEL_EXPORTER_OTLP_ENDPOINT, value: {{ .endpoint | quote }}}
  - {name: OTEL_TRACES_SAMPLER, value: {{ .sampler | quote }}}
  - {name: OTEL_TRACES_SAMPLER_ARG, value: {{ .samplerArgument | quote }}}
  - {name: OTEL_RESOURCE_ATTRIBUTES, value: "k8s.namespace.name={{ $root.Release.Namespace }},k8s.pod.name=$(POD_NAME)"}
  {{- end }}
  {{- end }}
volumeMounts:
  - {name: models, mountPath: /models, readOnly: true}
  - {name: state, mountPath: /var/lib/bastion}
  {{- if ne $values.mode "split" }}
  - {name: run, mountPath: /run/bastion}
  {{- else if ne $service "orchestrator" }}
  - {name: callers, mountPath: /etc/bastion/callers, readOnly: true}
  {{- end }}
  {{- if or $values.tls.secret (eq $values.mode "split") }}
  - {name: tls, mountPath: /etc/bastion/tls, readOnly: true}
  {{- end }}
  {{- if and $values.access.secret (has $service (list "orchestrator" "replica")) }}
  - {name: access, mountPath: /etc/bastion/access, readOnly: true}
  {{- end }}
{{- end }}

{{/* Requests equal limits, so that a pod keeps its cores and memory. Arguments: root, cores, MiB of memory,
number of GPUs of a device plugin, request of the claim ("": none). */}}
{{- define "bastion.resources" -}}
{{- $values := (index . 0).Values }}
{{- $gpu := $values.gpu -}}
resources:
  requests: &{{ index . 5 }}
    cpu: {{ index . 1 }}
    memory: {{ index . 2 }}Mi
    ephemeral-storage: 512Mi
    {{- if and (eq $gpu.allocation "extendedResource") (gt (int (index . 3)) 0) }}
    {{ $gpu.extendedResource.name }}: {{ index . 3 }}
    {{- end }}
  limits: *{{ index . 5 }}
  {{- if and (eq $gpu.allocation "claim") (index . 4) }}
  claims:
    - {name: gpu, request: {{ index . 4 }}}
  {{- end }}
{{- end }}

{{/* The doctor's total, a tenth for fragments, and 256 MiB for the program and the transport. */}}
{{- define "bastion.engineMemory" -}}
{{ add (div (add (mul (int .memoryMiB) 11) 9) 10) 256 }}
{{- end }}

{{/* Started: the model is loaded. Live: the process answers. Arguments: health port, seconds to start. */}}
{{- define "bastion.engineProbes" -}}
startupProbe:
  grpc: {port: {{ index . 0 }}}
  periodSeconds: 5
  timeoutSeconds: 3
  failureThreshold: {{ div (add (index . 1) 4) 5 }}
{{ include "bastion.liveness" (index . 0) }}
{{- end }}

{{- define "bastion.liveness" -}}
livenessProbe:
  grpc: {port: {{ . }}, service: liveness}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
{{- end }}

{{/* Ready: the verifier is connected and calibrated, and the pod does not drain. */}}
{{- define "bastion.orchestratorProbes" -}}
startupProbe:
  grpc: {port: 8070, service: liveness}
  periodSeconds: 1
  timeoutSeconds: 3
  failureThreshold: 120
readinessProbe:
  grpc: {port: 8070}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 1
{{ include "bastion.liveness" 8070 }}
{{- end }}

{{- define "bastion.verifierContainer" -}}
name: verifier
args:
  {{- include "bastion.verifierFlags" . | nindent 2 }}
{{ include "bastion.container" (list . "verifier") }}
ports:
  {{- if eq .Values.mode "split" }}
  - {name: verifier, containerPort: 7072}
  {{- end }}
  - {name: http-verifier, containerPort: 9072}
{{ include "bastion.engineProbes" (list 8072 .Values.verifier.startupSeconds) }}
{{ include "bastion.resources" (list . .Values.verifier.cpus (include "bastion.engineMemory" .Values.verifier) .Values.gpu.extendedResource.verifier "verifier" "verifierResources") }}
{{- end }}

{{- define "bastion.drafterContainer" -}}
{{- $shared := and (eq .Values.mode "colocated") .Values.gpu.claim.shared -}}
name: drafter
args:
  {{- include "bastion.drafterFlags" . | nindent 2 }}
{{ include "bastion.container" (list . "drafter") }}
ports:
  {{- if eq .Values.mode "split" }}
  - {name: drafter, containerPort: 7071}
  {{- end }}
  - {name: http-drafter, containerPort: 9071}
{{ include "bastion.engineProbes" (list 8071 .Values.drafter.startupSeconds) }}
{{ include "bastion.resources" (list . .Values.drafter.cpus (include "bastion.engineMemory" .Values.drafter) .Values.gpu.extendedResource.drafter (ternary "verifier" "drafter" $shared) "drafterResources") }}
{{- end }}

{{/* Before the sleep, the pod leaves the Services. After it, the orchestrator gets SIGTERM. */}}
{{- define "bastion.notice" -}}
lifecycle:
  preStop: {sleep: {seconds: {{ . }}}}
{{- end }}

{{- define "bastion.orchestratorContainer" -}}
name: orchestrator
args:
  {{- include "bastion.orchestratorFlags" . | nindent 2 }}
{{ include "bastion.container" (list . "orchestrator") }}
ports:
  - {name: grpc, containerPort: 7070}
  - {name: http, containerPort: 9070}
{{ include "bastion.orchestratorProbes" . }}
{{ include "bastion.notice" .Values.drain.noticeSeconds }}
{{ include "bastion.resources" (list . .Values.orchestrator.cpus .Values.orchestrator.memoryMiB 0 "" "orchestratorResources") }}
{{- end }}

{{/* All three services, under run_replica (deploy/docker/run_replica.sh). */}}
{{- define "bastion.replicaContainer" -}}
{{- $memory := add (include "bastion.engineMemory" .Values.verifier) (include "bastion.engineMemory" .Values.drafter) .Values.orchestrator.memoryMiB -}}
name: replica
args:
  - bastion-verifier
  {{- include "bastion.verifierFlags" . | nindent 2 }}
  - "--"
  - bastion-drafter
  {{- include "bastion.drafterFlags" . | nindent 2 }}
  - "--"
  - bastion-orchestrator
  {{- include "bastion.orchestratorFlags" . | nindent 2 }}
{{ include "bastion.container" (list . "replica") }}
ports:
  - {name: grpc, containerPort: 7070}
  - {name: http, containerPort: 9070}
  - {name: http-drafter, containerPort: 9071}
  - {name: http-verifier, containerPort: 9072}
startupProbe:
  grpc: {port: 8070}
  periodSeconds: 5
  timeoutSeconds: 3
  failureThreshold: {{ div (add .Values.verifier.startupSeconds 4) 5 }}
{{ omit (include "bastion.orchestratorProbes" . | fromYaml) "startupProbe" | toYaml }}
{{ include "bastion.notice" .Values.drain.noticeSeconds }}
{{ include "bastion.resources" (list . (add .Values.verifier.cpus .Values.drafter.cpus .Values.orchestrator.cpus) $memory .Values.gpu.extendedResource.verifier "verifier" "replicaResources") }}
{{- end }}

{{/* Compares the files of the volume with model.checksums. */}}
{{- define "bastion.checksumContainer" -}}
name: check-model
image: {{ include "bastion.image" (list . "bastion-orchestrator") }}
imagePullPolicy: {{ .Values.images.pullPolicy }}
command: [sha256sum, --check, --strict, --quiet, /etc/bastion/checksums/SHA256SUMS]
workingDir: /models
securityContext:
  allowPrivilegeEscalation: false
  capabilities: {drop: [ALL]}
  readOnlyRootFilesystem: true
volumeMounts:
  - {name: models, mountPath: /models, readOnly: true}
  - {name: checksums, mountPath: /etc/bastion/checksums, readOnly: true}
{{ include "bastion.resources" (list . 1 128 0 "" "checkResources") }}
{{- end }}
