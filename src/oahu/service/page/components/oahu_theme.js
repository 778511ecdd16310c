// Light or dark: as the system has it, until someone chooses.
export default {
  data: () => ({ dark: window.oahuTheme.dark() }),
  template: `<button type="button" class="icon" :aria-label="dark ? 'Light colours' : 'Dark colours'" :title="dark ? 'Light' : 'Dark'"
    @click="toggle">{{ dark ? '☀' : '☾' }}</button>`,
  mounted() {
    window.oahuTheme.told = (dark) => {
      this.dark = dark;
      Quasar.Dark.set(dark);
    };
    Quasar.Dark.set(this.dark);
  },
  methods: {
    toggle() {
      window.oahuTheme.toggle();
    },
  },
};
