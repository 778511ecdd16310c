// Keys that work everywhere on a page, and the browser's way back.
export default {
  emits: ["help", "undo", "back", "went"],
  template: `<button type="button" class="icon" aria-label="Keys" title="Keys (?)" @click="$emit('help')">?</button>`,
  mounted() {
    document.addEventListener("keydown", this.pressed);
    window.addEventListener("popstate", this.went);
  },
  unmounted() {
    document.removeEventListener("keydown", this.pressed);
    window.removeEventListener("popstate", this.went);
  },
  methods: {
    pressed(event) {
      const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName);
      if (typing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector(".q-dialog")) return;
      const does = { "?": "help", u: "undo", Escape: "back" }[event.key];
      if (does) this.$emit(does);
    },
    went() {
      this.$emit("went", location.search);
    },
  },
};
