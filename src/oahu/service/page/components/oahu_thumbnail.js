// The image of an item, or its key if it has none.
export default {
  props: { item: Object },
  data: () => ({ broken: null, pixels: false }),
  template: `
    <img v-if="item.src && broken !== item.src" :src="item.src" :class="{ pixels }" alt="" loading="lazy"
         decoding="async" draggable="false" @load="measure" @error="broken = item.src">
    <span v-else class="name" :class="{ long: item.key.length > 24 }">{{ item.key }}</span>`,
  methods: {
    measure(event) {
      this.pixels = event.target.naturalWidth <= 32; // enlarge small images without blurring
    },
  },
};
