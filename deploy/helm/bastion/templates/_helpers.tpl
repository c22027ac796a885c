{{- define "bastion.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" (.Release.Name | trunc 32) .Chart.Name }}
{{- end }}
{{- end }}

{{- define "bastion.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "bastion.labels" -}}
{{ include "bastion.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* What a schema cannot say. */}}
{{- define "bastion.check" -}}
{{- if eq (empty .Values.model.claim) (empty .Values.model.image) }}
{{- fail "set exactly one of model.claim and model.image: the volume with the models" }}
{{- end }}
{{- if eq .Values.mode "split" }}
{{- if not (and .Values.split.orchestratorSecret .Values.split.verifierSecret .Values.split.drafterSecret) }}
{{- fail "mode split needs split.orchestratorSecret, split.verifierSecret and split.drafterSecret, because its services talk over mutual TLS" }}
{{- end }}
{{- if .Values.autoscaling.enabled }}
{{- fail "autoscaling.enabled needs mode colocated or single: in mode split, the three services of a replica are in three StatefulSets, which must have the same size" }}
{{- end }}
{{- if .Values.tls.secret }}
{{- fail "tls.secret is for modes colocated and single; in mode split, the orchestrator serves clients with split.orchestratorSecret" }}
{{- end }}
{{- else if not (or .Values.tls.secret .Values.tls.allowPlaintext) }}
{{- fail "set tls.secret, or set tls.allowPlaintext: true if a proxy or mesh encrypts the traffic" }}
{{- end }}
{{- if and .Values.tls.requireClientCert (not (or .Values.tls.secret (eq .Values.mode "split"))) }}
{{- fail "tls.requireClientCert needs tls.secret with the key ca.crt" }}
{{- end }}
{{- if and (ne .Values.gpu.allocation "none") (not .Values.images.cuda) }}
{{- fail "gpu.allocation needs images.cuda: true; the other images run on CPUs only" }}
{{- end }}
{{- if and .Values.route.enabled (not .Values.route.parentRefs) }}
{{- fail "route.enabled needs route.parentRefs: the gateways of the route" }}
{{- end }}
{{- if and .Values.serviceMonitor.enabled (not .Values.metrics.enabled) }}
{{- fail "serviceMonitor.enabled needs metrics.enabled" }}
{{- end }}
{{- if and .Values.inferencePool.enabled (not (and .Values.inferencePool.picker .Values.openai.enabled)) }}
{{- fail "inferencePool.enabled needs inferencePool.picker, the name of the picker's Service, and openai.enabled" }}
{{- end }}
{{- end }}

{{/* Arguments: a list of the root context and the name of the image. */}}
{{- define "bastion.image" -}}
{{- $root := index . 0 }}
{{- $name := index . 1 }}
{{- with $root.Values.images }}
{{- if and .cuda (ne $name "bastion-orchestrator") }}
{{- $name = print $name "-cuda" }}
{{- end }}
{{- $digest := get .digests $name }}
{{- $place := ternary $name (print .registry "/" $name) (empty .registry) }}
{{- if $digest }}
{{- print $place "@" $digest }}
{{- else }}
{{- print $place ":" (.tag | default $root.Chart.AppVersion) }}
{{- end }}
{{- end }}
{{- end }}

{{/* The names by which clients reach the OpenAI-compatible API, separated by commas. A route without names
passes on all of them. */}}
{{- define "bastion.hosts" -}}
{{- $name := include "bastion.name" . }}
{{- $service := print $name "." .Release.Namespace }}
{{- $hosts := list $name $service (print $service ".svc") (print $service ".svc." .Values.clusterDomain) }}
{{- $hosts = concat $hosts .Values.openai.hosts .Values.route.hostnames }}
{{- if and .Values.route.enabled (empty .Values.route.hostnames) }}
{{- $hosts = list "*" }}
{{- end }}
{{- join "," $hosts }}
{{- end }}

{{/* How long a pod may take to end, in seconds: the notice, the longest answer, and what the three services
need at most to end (5 s each), with a margin. */}}
{{- define "bastion.gracePeriod" -}}
{{ add .Values.drain.noticeSeconds .Values.drain.longestAnswerSeconds 20 }}
{{- end }}

{{/* The address of the service that belongs to the same replica in mode split. Arguments: root, service, port. */}}
{{- define "bastion.peer" -}}
{{- $root := index . 0 }}
{{- $name := print (include "bastion.name" $root) "-" (index . 1) }}
{{- printf "%s-$(POD_INDEX).%s.%s.svc.%s:%v" $name $name $root.Release.Namespace $root.Values.clusterDomain (index . 2) }}
{{- end }}
