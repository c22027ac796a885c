{{/* The spec of a pod, except its containers. Arguments: root, service, and whether the pod uses the GPU. */}}
{{- define "bastion.pod" -}}
{{- $root := index . 0 }}
{{- $service := index . 1 }}
{{- $values := $root.Values -}}
serviceAccountName: {{ include "bastion.name" $root }}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: {{ include "bastion.gracePeriod" $root }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with $values.images.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - {name: {{ . | quote }}}
  {{- end }}
{{- end }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "bastion.selector" $root | nindent 8 }}
        app.kubernetes.io/component: {{ $service }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if and (eq $values.gpu.allocation "claim") (index . 2) }}
resourceClaims:
  - name: gpu
    resourceClaimTemplateName: {{ include "bastion.claim" (list $root $service) }}
{{- end }}
volumes:
  - name: models
    {{- if $values.model.claim }}
    persistentVolumeClaim: {claimName: {{ $values.model.claim }}, readOnly: true}
    {{- else }}
    image: {reference: {{ $values.model.image | quote }}, pullPolicy: IfNotPresent}
    {{- end }}
  # What containers learn, kept when they restart: autotuning, compiled kernels, acceptance.
  - name: state
    emptyDir: {sizeLimit: 256Mi}
  {{- if eq $values.mode "split" }}
  - name: tls
    secret: {secretName: {{ index $values.split (print $service "Secret") }}, defaultMode: 0440}
  {{- if ne $service "orchestrator" }}
  - name: callers
    configMap: {name: {{ include "bastion.name" $root }}-callers}
  {{- end }}
  {{- else }}
  - name: run
    emptyDir: {medium: Memory, sizeLimit: 1Mi}
  {{- if $values.tls.secret }}
  - name: tls
    secret: {secretName: {{ $values.tls.secret }}, defaultMode: 0440}
  {{- end }}
  {{- end }}
  {{- if and $values.access.secret (has $service (list "orchestrator" "replica")) }}
  - name: access
    secret: {secretName: {{ $values.access.secret }}, defaultMode: 0440}
  {{- end }}
  {{- if $values.model.checksums }}
  - name: checksums
    configMap: {name: {{ include "bastion.name" $root }}-checksums}
  {{- end }}
{{- end }}

{{/* Labels of a pod. Arguments: root, service. */}}
{{- define "bastion.podMetadata" -}}
{{- $root := index . 0 -}}
labels:
  {{- include "bastion.labels" $root | nindent 2 }}
  app.kubernetes.io/component: {{ index . 1 }}
  {{- with $root.Values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $root.Values.podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The name of the claim's template. Arguments: root, service. */}}
{{- define "bastion.claim" -}}
{{- $root := index . 0 }}
{{- include "bastion.name" $root }}
{{- if eq $root.Values.mode "split" }}-{{ index . 1 }}{{ end }}
{{- end }}
